console.log(input);
var input = 1;
function console() {}
