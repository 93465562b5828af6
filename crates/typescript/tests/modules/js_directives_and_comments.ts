#!/usr/bin/env node
'use strict';
/* a comment */
// another
export default 1; /* last */
