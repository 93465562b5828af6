'use strict';
x + 1;
