var arguments_ = 010;
with (o) { x }
delete y;
