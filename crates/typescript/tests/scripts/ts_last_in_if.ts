if (x as boolean) { y as number } else { <any>z }
