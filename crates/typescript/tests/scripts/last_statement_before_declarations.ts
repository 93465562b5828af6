if (a) {
  first(a), second(b)
  const x = 1;
} else tag`b`
class A { b = 1 }
let y, $result
