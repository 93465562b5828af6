Here's the code you asked for:

```js
await a.b()
```

It calls b, doesn't it?
