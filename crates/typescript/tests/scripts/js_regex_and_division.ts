const a = 4 / 2 / 1, r = /[/]"/g.test('/');
const b = /a/ .test(r), c = /a/ ;
r
