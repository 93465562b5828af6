import { unused } from 'fs';
import Default, { another } from './default';
import * as everything from './everything';
import {} from './nothing';
import './effects';
