mod attacks;
mod flow;
mod later;
mod several;
