'use strict';
'hello';
