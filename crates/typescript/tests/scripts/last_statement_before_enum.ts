5
enum A { B = 1 }
export namespace C { export const d = 2 }
