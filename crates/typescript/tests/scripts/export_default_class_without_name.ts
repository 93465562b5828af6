export default class { x = 1 }
