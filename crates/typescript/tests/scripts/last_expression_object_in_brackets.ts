const total = 3;
({ total, when: 'now' });
