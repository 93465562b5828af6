a<b>(c)
