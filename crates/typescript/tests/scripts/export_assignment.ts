export = 5;
