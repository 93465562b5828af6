await import('x')
