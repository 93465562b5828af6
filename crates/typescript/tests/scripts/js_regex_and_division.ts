const a = 4 / 2 / 1, r = /[/]"/g.test('/');
r
