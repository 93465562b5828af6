1 + 1 // two
/* yes, two */
// really
