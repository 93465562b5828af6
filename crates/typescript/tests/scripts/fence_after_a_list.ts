- item
```
const a = `x`;
a
```
