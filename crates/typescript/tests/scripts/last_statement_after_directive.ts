"use strict";
const a = 1;
