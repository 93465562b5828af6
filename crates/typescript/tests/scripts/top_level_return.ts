if (x) return 'early';
return 'late';
