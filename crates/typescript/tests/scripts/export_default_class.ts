export default class Foo { x = 1 }
