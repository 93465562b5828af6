switch (a) { case 1: 'one'; }
