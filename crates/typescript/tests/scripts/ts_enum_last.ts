1;
enum A { X }
enum A { Y = 1 }
