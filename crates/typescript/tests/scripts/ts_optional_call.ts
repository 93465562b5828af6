a?.b<string>()?.c!.d
