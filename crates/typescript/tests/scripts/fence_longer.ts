````js
const md = '```';
md
````
