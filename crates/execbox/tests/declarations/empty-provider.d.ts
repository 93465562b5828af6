declare namespace demo {}
