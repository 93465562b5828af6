const a = async <
  T
>(x: T): Promise<
  T
> => x
let b = a as any
[b] = [<
  any
>a]
const f = () => <any>{ a: 1 }
type T = 1
(f)
