'use strict';
console;
