export default class Main {}
