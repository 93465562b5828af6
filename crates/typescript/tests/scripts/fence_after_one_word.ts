Solution
```js
1 + 1
```
