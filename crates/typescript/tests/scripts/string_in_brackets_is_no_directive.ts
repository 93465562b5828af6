('use strict');
x;
