namespace N {
  export const x = 1;
  export namespace M { export const y = 2; }
}
N.x
