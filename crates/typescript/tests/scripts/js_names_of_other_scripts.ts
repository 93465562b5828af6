var ゛ = 5, a゜ = 6, ﾞ = 7;
for (using of = null;;) break
゛ + a゜
