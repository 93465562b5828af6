function f(console) { return console; }
const g = (input) => { let getMessage = input; return getMessage; };
try {} catch (getMessage) { getMessage; }
{ let input; input; }
