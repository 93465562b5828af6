enum A { X = input.length, input = 2 }
namespace N { export const console = 1; console; getMessage; }
