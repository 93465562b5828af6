import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser';

const xml = `<?xml version="1.0"?><shop id="7"><!-- note --><item price="1.50" sale="true">Tea &amp; co</item><item>12</item><empty/><text><![CDATA[<raw>]]></text><ns:a xmlns:ns="u">x</ns:a></shop>`;
const parsed = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '@', parseAttributeValue: true, cdataPropName: '#cdata' }).parse(xml);
export default { parsed, plain: new XMLParser().parse(xml), ordered: JSON.stringify(new XMLParser({ preserveOrder: true }).parse('<a>1<b/>2</a>')), built: new XMLBuilder({ ignoreAttributes: false, attributeNamePrefix: '@', format: true }).build({ root: { '@a': 1, item: [{ x: 1 }, { x: '<&>' }] } }), valid: [XMLValidator.validate(xml), XMLValidator.validate('<a><b></a>')] };
