export default input;
