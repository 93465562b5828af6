// Get the thing.
'use strict';
(async () => {
  return 1;
});
// done
