[{'id': i, 'name': 'item ' + str(i), 'values': [i, i * 2, i * 3], 'even': i % 2 == 0} for i in range(15000)]
