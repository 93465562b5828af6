Solution:
```ts
let a: number = `1`.length; a
```
Done
