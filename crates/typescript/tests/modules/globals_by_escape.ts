\u0063onsole.log(1);
