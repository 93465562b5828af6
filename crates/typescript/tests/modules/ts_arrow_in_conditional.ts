export default a ? (b) : c => d;
