

  ```typescript title="x"
const a: number = 1;
a
```

That should do.
