namespace N { export const a = 1 }
export import b = N.a;
