/* a comment */ function f( a,b ){ return String.raw`</script>\n` /* inside */ }
if (f) 1; else /\n/.test(f) ; var x = f () / 2 /1;  x ++ / 2
{ } /[/]/.test(x)
