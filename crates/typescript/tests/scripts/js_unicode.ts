const größe = '😀';
`${größe}\u2028`
