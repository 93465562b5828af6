const answers = await Promise.all(Array.from({ length: 1000 }, (_, i) => echo(i)));
return answers.reduce((sum, answer) => sum + answer, 0);
