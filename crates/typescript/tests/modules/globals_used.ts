console.log(input);
export default () => getMessage();
