5;
namespace T { export interface A {} type B = A }
