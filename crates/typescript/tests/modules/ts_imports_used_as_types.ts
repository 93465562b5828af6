import { User, Row } from './types';
import Default from './default';
import * as all from './all';
import { both } from './both';
class Admin implements User { row?: Row; d!: Default; a!: all.Thing; b!: typeof both; }
export default new Admin();
