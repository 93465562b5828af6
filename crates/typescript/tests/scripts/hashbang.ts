#!/usr/bin/env node
1 + 1
