// the answer
{ answer: 42 } // there
